"""AWS Lambda: functions that run in processes of their own."""
