"""Models that people have marked with a star: the first group of the model picker."""
