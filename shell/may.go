package shell

// May reports whether a pattern with this [Pattern.Program] may match a command of the
// script. It is false only if that is certain.
func (s *Script) May(program string) bool {
	for i := range s.Commands {
		if c := &s.Commands[i]; c.computed || c.key == program || program == "" {
			return true
		}
	}
	return false
}
