"""AWS Step Functions: moto's interpreter and API, behaving as AWS's where they differ."""
