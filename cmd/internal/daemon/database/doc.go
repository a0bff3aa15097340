// Package database opens the SQLite databases of the daemon. Each is one file that one process
// writes and any number of processes read:
//
//	db, err := database.Open(database.Options{Dir: dir, Name: "queue", Schema: schema, Version: 1})
//	err = db.Write(ctx, func(tx *database.Tx) error { return tx.Run("DELETE FROM off") })
//	err = db.Flush() // survives a power cut
//
//	r, err := database.OpenReader(database.Options{Dir: dir, Name: "queue", Version: 1})
//	err = r.Read(ctx, func(v *database.View) error { ... })
//
// The package creates the tables, and notices a database that is damaged or of another version. If the
// file was removed, replaced or truncated while it is open, the next [DB.Write] opens or creates the
// file at the path again, because data in a file without a path would be lost. It does not restore
// the old content.
package database
