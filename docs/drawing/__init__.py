"""What ``docs/generate.py`` draws: the code read, its cores tried out, and both put into tables."""
