"""Moments by period on Delta Lake. No file of this room imports pyspark.

A retraining job stores the pair moments of each period, such as a day, and trains on windows of
periods: rows of past periods are not read again. Begin with `spark_auc.store.moment_store`.

Table
    A row is ``(schemaId, period, source, segment, fold, class, tile, rows, weight, bytes)``: one
    `MomentsTile` of one class in one fold, at most 2 MB. The ``k`` folds are stored, and no total.
    ``schemaId``, ``period`` and ``source`` are the partition columns. The rows of one source of one
    period are one file, sorted by tile, segment, fold and class, and a row group has one tile. A
    window therefore opens the files of its periods only, and reads them tile by tile. Z-ordering
    would add nothing to this order.

Schema id
    The hash of the recipe, dimension, number of folds, seed, positive label and weight column, and
    of the segment column and the segments if there are any. The `Facts` themselves are a row of the
    table, and so is the label of negative rows, which is no part of the id. Other facts than the
    stored ones are refused with the fields that differ. A full refresh stores periods under a new
    id; periods of other ids remain. Format versions of the codec are no part of the id: the codec
    decides which bytes it reads, and the next replacement of a period writes its current format.

Segment
    The rows of a segment are stored under its name, those of no segment under "". All rows are the
    merge of all segments; no row is stored twice.

Period
    An ISO date (``2026-03-01``) or another sortable name; all periods of an id are of one kind. The
    age of a date is its number of days before the newest period of the window, and the age of
    another name is its rank. Late rows are a further source of their period.

Streams
    A micro-batch is a source of its own of each of its periods, by the number of the batch: a
    repeated batch replaces itself. Sixteen batches of a period are merged into one source. The
    source ``rows`` has all rows of a period, as a batch job read them: it supersedes those of all
    streams, whichever was stored first. Merged batches supersede each of them. Superseded sources
    are removed by the next commit of a source of the period; windows never merge them.

Replacement
    ``put`` replaces all segments of a source of a period, by one commit that overwrites a
    partition. If the stored bytes are equal, it makes no commit. A period that another process
    changed since this store was opened raises `StoreConflict`; commits of other periods are merged
    by Delta Lake. Names of columns and of files do not depend on the commit order, and rows are
    merged from the newest period to the oldest, then by source and segment, so that equal rows
    give equal bits.

Durability
    The deltalake package does not flush files. On a local disk, ``put`` returns after an fsync of
    the data files, the log entries and the directories, since the last checkpoint. Entries of
    other writers are included: a later entry is unreadable without them. A checkpoint is written
    every ten commits, after the entries that it covers are flushed; expired entries are deleted
    after the checkpoint is flushed. A commit that was not reported may be on disk without its data
    file: other periods remain readable, and a rerun of the job replaces the period.

Damage
    Checksums refuse rows with damaged bytes. Damage in the footer of a file is refused where Arrow
    reports it; some of it ends the process inside Arrow.

Windows
    Windows are merged and never subtracted. One read from the newest period to the oldest makes all
    windows and all half-lives: the moments of a period of age ``a`` are scaled by
    ``2^(-a / halfLife)`` at read. Tiles are processed one by one; the merged tiles of the ``k``
    folds go to a temporary file, and one complement of a fold is in memory at a time.

Deletion
    The moments of a person's rows are subtracted from the stored folds. Counts, weights, the
    diagonal and the bound ``S_ij^2 <= S_ii S_jj`` of the remaining scatter are checked; moments
    that contradict them were never added and are refused. Then the superseded files are deleted.
    The commit is marked, so that a second run after a failure deletes the files and subtracts
    nothing.
"""

from spark_auc.errors import require

require("store", "deltalake", "pyarrow")
