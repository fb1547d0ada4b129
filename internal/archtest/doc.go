// Package archtest holds the rules of the code base that a compiler can't: who
// may import what, and what every package must and must not have. They are
// tables with a reason in each row; a change of the architecture changes a row
// here in the same commit.
//
// The package has tests only.
package archtest
