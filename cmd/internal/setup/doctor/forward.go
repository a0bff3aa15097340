package doctor

// judgeForward judges whether the targets of records.forward get the Records.
func judgeForward(f *facts) []Finding {
	var found []Finding
	if f.forwardErr != nil {
		found = append(found, Finding{ID: "forward.unknown", Level: Warn, What: "cannot see how far Records are forwarded: " + cut(f.forwardErr.Error(), 200), Hint: "grapnel check"})
	}
	for i := range f.forward {
		r := &f.forward[i]
		problems := r.Problems(f.now)
		if len(problems) == 0 {
			found = append(found, Finding{ID: "forward.works", Level: OK, Subject: r.To, What: r.String()})
		}
		for _, p := range problems {
			finding := Finding{ID: "forward.problem", Level: Warn, Subject: r.To, What: cut(p.What, 400), Why: "the Records stay on this machine", Hint: p.Hint}
			if p.Bad {
				finding.ID, finding.Level, finding.Why = "forward.lost", Bad, "the target never gets them"
			}
			found = append(found, finding)
		}
	}
	return found
}
