// Command windrow is the server and its command line. See windrow --help.
package main

import "github.com/windrow-run/windrow/api/windrow"

func main() { windrow.Main() }
