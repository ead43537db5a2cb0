// SPDX-License-Identifier: Apache-2.0
import type { Express, NextFunction, Request, Response } from "express";
import { signalClose } from "@patchbay/base";
import { type AccountTokens, ISSUER } from "../../auth/tokens/account-tokens.ts";
import { ALGORITHM } from "../../auth/tokens/token-signer.ts";
import { TimeSlice, type TimeSliceDeps } from "../../limits/fair-queue.ts";
import type { Limits } from "../../limits/limits.ts";
import { backupLines } from "../../storage/backup.ts";
import type { Store } from "../../storage/store.ts";
import { authenticatedUser } from "../access-filter.ts";
import { sendPieces } from "../response/send-pieces.ts";

/** Response to `/version`, from which clients derive the features of the server. */
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

/** Names of health checks. All pass whenever the server responds, because the server opens the store before it listens. */
const HEALTH_CHECKS: readonly string[] = ["ping", "log", "store"];

function queryValues(request: Request, key: string): readonly string[] {
  return [request.query[key] ?? []].flat().map(String);
}

function healthText(name: string, request: Request): string {
  const excludedChecks = queryValues(request, "exclude");
  if (request.query["verbose"] === undefined) {
    return "ok";
  }
  const lines = HEALTH_CHECKS.map((check) =>
    excludedChecks.includes(check) ? `[+]${check} excluded: ok` : `[+]${check} ok`,
  );
  const unknownChecks = excludedChecks.filter((check) => !HEALTH_CHECKS.includes(check));
  const warnings =
    unknownChecks.length === 0
      ? []
      : [
          `warn: some health checks cannot be excluded: no matches for ${unknownChecks.map((check) => JSON.stringify(check)).join(", ")}`,
        ];
  return `${[...lines, ...warnings].join("\n")}\n${name} check passed\n`;
}

export function routeHealth(app: Express): void {
  for (const name of ["healthz", "livez", "readyz"]) {
    app.get(`/${name}`, (request: Request, response: Response) => {
      response.type("text/plain").send(healthText(name, request));
    });
    for (const check of HEALTH_CHECKS) {
      app.get(`/${name}/${check}`, (_request: Request, response: Response) => {
        response.type("text/plain").send("ok");
      });
    }
  }
  app.get("/version", (_request: Request, response: Response) => {
    response.json(VERSION);
  });
}

/** Media type of metrics. Source: Prometheus exposition formats. */
const CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

export interface MetricsDeps {
  readonly readMetrics?: () => Promise<string>;
}

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

/** Adds the routes for the issuer and the public keys of service account tokens. Source: OpenID Connect Discovery, RFC 7517. */
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

/** Adds the backup route. The response includes Secrets, so clients need RBAC access to the URL path `/backup`. */
export function routeBackup(
  app: Express,
  deps: TimeSliceDeps & { readonly store: Store; readonly limits: Limits },
): void {
  const { store, limits } = deps;
  app.get("/backup", (request: Request, response: Response) => {
    const owner = { user: authenticatedUser(request), closed: signalClose(response) };
    return sendPieces(response, {
      code: 200,
      contentType: "application/x-ndjson",
      pieces: backupLines(store),
      unreadMs: limits.unreadMs,
      timeSlice: new TimeSlice(deps, owner),
    });
  });
}
