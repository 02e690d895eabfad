// Package progress shows a run to people and to programs that read lines.
//
// On a terminal two rows are redrawn in place: what the last step gave, and below it a bar. Everything
// else (phases that ended, warnings, checkpoints) scrolls by above them. Where lines are read by a
// program there is one JSON object for every step and nothing else; what is meant for people goes to
// the other writer. A terminal that cannot move its cursor gets plain lines.
//
// The package renders and writes to what it is given: the writers, the terminal's width and the clock
// are the caller's. It never hides the cursor or changes the terminal's modes, so a process that is
// killed leaves nothing to put right.
package progress
