// SPDX-License-Identifier: Apache-2.0
// GET /backup: everything at one moment, for whoever may read this path. Secrets are in it.
import type { Express, Request, Response } from "express";
import { backupLines } from "../../storage/backup.ts";
import type { Limits } from "../../limits/limits.ts";
import type { Store } from "../../storage/store.ts";
import { sendPieces } from "../answer/send-pieces.ts";

/** Adds `/backup`: lines of JSON, one for each object. */
export function routeBackup(
  app: Express,
  { store, limits }: { readonly store: Store; readonly limits: Limits },
): void {
  app.get("/backup", (_request: Request, response: Response) =>
    sendPieces(response, {
      code: 200,
      contentType: "application/x-ndjson",
      pieces: backupLines(store),
      unreadMs: limits.unreadMs,
    }),
  );
}
