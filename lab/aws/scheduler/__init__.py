"""EventBridge Scheduler: what it refuses, and schedules that run."""
