"""A real standalone cluster whose parts die, lose their network, or find no room on a disk.

``cluster`` has the processes, ``jobs`` what runs on them, ``draw`` the faults of a run. Begin with
`tests.cluster.test_faults`.
"""
