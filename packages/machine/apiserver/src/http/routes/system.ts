// SPDX-License-Identifier: Apache-2.0
// Routes that are no resources: health, version, metrics, OpenID configuration, backup.
import type { Express, NextFunction, Request, Response } from "express";
import { type AccountTokens, ISSUER } from "../../auth/tokens/account-tokens.ts";
import { ALGORITHM } from "../../auth/tokens/token-signer.ts";
import type { Limits } from "../../limits/limits.ts";
import { backupLines } from "../../storage/backup.ts";
import type { Store } from "../../storage/store.ts";
import { sendPieces } from "../answer/send-pieces.ts";

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

/** Source: Prometheus exposition formats. */
const CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** Reads the metrics of all services; unset: there are none, and the path is unknown. */
export interface MetricsDeps {
  readonly readMetrics?: () => Promise<string>;
}

/** Adds `/metrics`. */
export function routeMetrics(app: Express, { readMetrics }: MetricsDeps): void {
  if (readMetrics === undefined) return;
  app.get("/metrics", async (_request: Request, response: Response, next: NextFunction) => {
    try {
      const text = await readMetrics();
      response.writeHead(200, { "content-type": CONTENT_TYPE }).end(text);
    } catch (error) {
      next(error);
    }
  });
}

const KEYS_PATH = "/openid/v1/jwks";

/** Adds the configuration of the issuer and its public keys. */
export function routeOpenId(app: Express, tokens: AccountTokens): void {
  app.get("/.well-known/openid-configuration", (request: Request, response: Response) => {
    response.json({
      issuer: ISSUER,
      jwks_uri: `https://${request.headers.host ?? ""}${KEYS_PATH}`,
      response_types_supported: ["id_token"],
      subject_types_supported: ["public"],
      id_token_signing_alg_values_supported: [ALGORITHM],
    });
  });
  app.get(KEYS_PATH, async (_request: Request, response: Response) => {
    response.type("application/jwk-set+json");
    response.send(JSON.stringify({ keys: await tokens.publicKeys() }));
  });
}

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
