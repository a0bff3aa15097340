package deliverytest

import "testing"

func TestMemory(t *testing.T) {
	t.Parallel()
	Queue(t, func(TB) Opened {
		m := &Memory{}
		return Opened{Queue: m, Put: m.Add}
	})
}
