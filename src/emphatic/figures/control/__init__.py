"""Figure 4: deep agents on Reacher."""
