"""What the templates' custom resources do: check, prepare and empty."""
