"""AWS Step Functions: moto's interpreter and API, changed where they differ from AWS's."""
