"""Files, their names, and the seam that every change to a file goes through."""
