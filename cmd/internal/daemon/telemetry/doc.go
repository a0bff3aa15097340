// Package telemetry shows what a daemon does: metrics for Prometheus, traces and logs for
// OpenTelemetry, and its own log.
//
//	metrics := telemetry.NewMetrics(telemetry.MetricsOptions{Version: "1.2.3"})
//	engine, err := grapnel.New(specs, &grapnel.Options{Observers: []grapnel.Observer{metrics}})
//	mux.Handle("GET /metrics", metrics.Handler())
//
//	opts, err := telemetry.FromEnv(os.Getenv) // of the daemon, never of a hook
//	export, err := telemetry.NewExport(opts)  // nil when no collector is named; that does nothing
//	go export.Run(ctx)
//
// Nothing here is on the way of an answer: what a collector is told goes through a queue
// of a fixed size, and what finds it full is dropped and counted.
//
// It keeps no Records and reads none. What the store and the deliveries have to say is
// asked of small functions that the daemon passes.
package telemetry
