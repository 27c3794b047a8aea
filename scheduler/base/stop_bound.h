/* Bounds how long a program takes to end once it was asked to. */
#ifndef DT_BASE_STOP_BOUND_H
#define DT_BASE_STOP_BOUND_H

#define DT_STOP_SECONDS 20 /* deploy/README.md, "How long a program takes to end" */

/*
 * Called once, when the program was asked to end. A program that is still there `seconds` later ends at once, with
 * the exit code 0 and a line in its log. What it left half done is what a killed process leaves, and others take it
 * over as that. Any thread. Without memory for a thread the end has no bound.
 */
void dt_stop_bound(unsigned seconds);

#endif
