// SPDX-License-Identifier: Apache-2.0
// How others check tokens of service accounts by themselves. Source: OpenID Connect Discovery, RFC 7517.
import type { Express, Request, Response } from "express";
import { ISSUER } from "../../auth/tokens/account-claims.ts";
import type { AccountTokens } from "../../auth/tokens/account-tokens.ts";
import { ALGORITHM } from "../../auth/tokens/token-signer.ts";

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
