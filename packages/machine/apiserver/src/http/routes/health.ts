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

/** What has to be well; all of it is, as long as the server answers: it listens only when its store is open. */
const CHECKS: readonly string[] = ["ping", "log", "store"];

function wanted(request: Request, key: string): readonly string[] {
  return [request.query[key] ?? []].flat().map(String);
}

function healthText(name: string, request: Request): string {
  const excluded = wanted(request, "exclude");
  if (request.query["verbose"] === undefined) {
    return "ok";
  }
  const lines = CHECKS.map((check) =>
    excluded.includes(check) ? `[+]${check} excluded: ok` : `[+]${check} ok`,
  );
  const unknown = excluded.filter((check) => !CHECKS.includes(check));
  const told =
    unknown.length === 0
      ? []
      : [
          `warn: some health checks cannot be excluded: no matches for ${unknown.map((check) => JSON.stringify(check)).join(", ")}`,
        ];
  return `${[...lines, ...told].join("\n")}\n${name} check passed\n`;
}

/** Adds the routes, those of single checks too. */
export function routeHealth(app: Express): void {
  for (const name of ["healthz", "livez", "readyz"]) {
    app.get(`/${name}`, (request: Request, response: Response) => {
      response.type("text/plain").send(healthText(name, request));
    });
    for (const check of CHECKS) {
      app.get(`/${name}/${check}`, (_request: Request, response: Response) => {
        response.type("text/plain").send("ok");
      });
    }
  }
  app.get("/version", (_request: Request, response: Response) => {
    response.json(VERSION);
  });
}
