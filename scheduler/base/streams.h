/*
 * The standard streams of a program: none of their descriptors becomes a connection's, and output that could not be
 * written is an error.
 */
#ifndef DT_BASE_STREAMS_H
#define DT_BASE_STREAMS_H

/* Opens /dev/null in the place of a standard descriptor that is closed; reading or writing there fails, as before. Must
 * be called first: a connection that got the descriptor would receive what the program prints. */
void dt_streams_occupy(void);

/* Writes what standard output still holds; 0, or the errno of the first write that failed. */
int dt_streams_flush(void);

/* Ends the output of a program: the exit code, which is 1 in place of 0 if something could not be written. */
int dt_streams_end(const char *program, int code);

#endif
