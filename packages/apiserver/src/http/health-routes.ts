// SPDX-License-Identifier: Apache-2.0
// Paths that every user may read: health and version.
import type { Express, Request, Response } from "express";

/** What the server says of itself; clients choose their behaviour by it. */
const VERSION = {
  major: "1",
  minor: "30",
  gitVersion: "v1.30.0+patchbay",
  gitCommit: "",
  gitTreeState: "clean",
  buildDate: "1970-01-01T00:00:00Z",
  goVersion: "",
  compiler: "node",
  platform: "linux",
};

const CHECKS: readonly string[] = ["ping", "log", "store"];

function healthText(name: string, verbose: boolean): string {
  return verbose
    ? `${CHECKS.map((check) => `[+]${check} ok`).join("\n")}\n${name} check passed\n`
    : "ok";
}

/** Adds the routes. The server listens only when its store is open, so it is always ready. */
export function routeHealth(app: Express): void {
  for (const name of ["healthz", "livez", "readyz"]) {
    app.get(`/${name}`, (request: Request, response: Response) => {
      response.type("text/plain").send(healthText(name, request.query["verbose"] !== undefined));
    });
  }
  app.get("/version", (_request: Request, response: Response) => {
    response.json(VERSION);
  });
}
