"""What moto's EC2 lacks: placement groups, capacity reservations, launches that heed both."""
