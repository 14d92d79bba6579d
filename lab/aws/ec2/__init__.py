"""What moto's EC2 lacks: placement groups, capacity reservations, and launches that use them."""
