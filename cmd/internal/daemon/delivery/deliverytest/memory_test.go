package deliverytest

import (
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/store/storetest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	storetest.Queue(t, func(storetest.TB) storetest.Opened {
		m := &Memory{}
		return storetest.Opened{Queue: m, Put: m.Add}
	})
}
