"""What the trials say: the estimate, the verdicts and marks, and the words for them."""
