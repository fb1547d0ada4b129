package telemetry

import "runtime/debug"

// Build returns the module's version and the commit that the program was built from, each "unknown" where the build does not
// tell.
func Build() (version, commit string) {
	version, commit = "unknown", "unknown"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version, commit
	}
	if info.Main.Version != "" {
		version = info.Main.Version
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			commit = setting.Value
		}
	}
	return version, commit
}
