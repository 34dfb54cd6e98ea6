"""Teachers and students: how teachers are weighed, asked and trusted, and what differing costs."""
