// Package telemetry shows what a daemon does.
//
//	metrics := telemetry.NewMetrics(telemetry.MetricsOptions{Version: "1.2.3"})
//	engine, err := grapnel.New(specs, &grapnel.Options{Observers: []grapnel.Observer{metrics}})
//	mux.Handle("GET /metrics", metrics.Handler())
//
// It keeps no Records and reads none. What the store and the deliveries have to say is
// asked of small functions that the daemon passes.
package telemetry
