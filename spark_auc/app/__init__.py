"""What a job is made of: configuration, publication, reports, and one module per job."""
