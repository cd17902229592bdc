"""What runs show: statistics over seeds, memory, regret, the paper's numbers."""
