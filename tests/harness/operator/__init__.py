"""A person who follows the pages of deploy/disaster word for word, on a stack whose programs are machines."""
