// SPDX-License-Identifier: Apache-2.0
// Certificates for migrations. The request contains the public key, and the credentials of the calling virt-handler determine the node.
import { createPublicKey } from "node:crypto";
import { names } from "@patchbay/api";
import { isJsonObject } from "@patchbay/api/json";
import { HANDLER_CLIENT_NAME, HANDLER_SERVER_NAME } from "@patchbay/core/guest";
import { certifyKey } from "@patchbay/pki";
import {
  VIRT_HANDLER_ACCOUNT,
  findAgentNode,
  toFailureAnswer,
  type Answer,
  type Call,
  type CallHandler,
} from "../http/calls.ts";
import { SERVER_NAME } from "../certificates/secret.ts";
import type { Deps } from "../deps.ts";

/** Lifetime of a certificate in days. It must exceed the duration of a migration. */
const CERTIFICATE_VALID_DAYS = 2;

/** Common names of other certificates of this CA. A node with one of these names could impersonate another component. */
const RESERVED_NAMES: readonly string[] = [HANDLER_CLIENT_NAME, HANDLER_SERVER_NAME, SERVER_NAME];

/** Parses the public key. Returns undefined unless the key is on curve P-256. */
function parsePublicKey(body: unknown): string | undefined {
  const text = isJsonObject(body) ? body["publicKey"] : undefined;
  if (typeof text !== "string") return undefined;
  try {
    const key = createPublicKey(text);
    const isSupported = key.asymmetricKeyDetails?.namedCurve === "prime256v1";
    return isSupported ? key.export({ type: "spki", format: "pem" }).toString() : undefined;
  } catch {
    return undefined;
  }
}

function deny(message: string): Answer {
  return toFailureAnswer({ code: 403, message });
}

async function signCertificate(node: string, { body }: Call, deps: Deps): Promise<Answer> {
  const publicKeyPem = parsePublicKey(body);
  if (publicKeyPem === undefined) {
    const message = "publicKey must be a P-256 public key, as PEM";
    return toFailureAnswer({ code: 400, message });
  }
  const ownAuthority = await deps.relayAuthority();
  if (ownAuthority === undefined) {
    const message =
      "virt-api cannot sign certificates: it does not manage those of this installation";
    return toFailureAnswer({ code: 503, message });
  }
  const certificate = await certifyKey(ownAuthority.authority, publicKeyPem, {
    commonName: node,
    organizations: [names.RELAY_GROUP],
    dnsNames: [],
    ipAddresses: [],
    usages: ["server", "client"],
    validDays: CERTIFICATE_VALID_DAYS,
  });
  deps.log.info("signed the certificate of a node for migrations", { node });
  return { code: 200, body: { certificate, authorities: ownAuthority.bundlePem } };
}

/** Signs the node's key. Responds with 403 if the caller is not a known node's agent, or if the node's name is reserved. */
export function relayCertificate(deps: Deps): CallHandler {
  return async (call) => {
    const { user } = call;
    if (user.name !== VIRT_HANDLER_ACCOUNT)
      return deny(`User "${user.name}" is not an agent of a node`);
    const node = await findAgentNode(user, deps);
    if (node === undefined) {
      return deny(`User "${user.name}" has no token that names its node`);
    }
    if (RESERVED_NAMES.includes(node))
      return deny(`node "${node}" has a name that is reserved for another component`);
    return signCertificate(node, call, deps);
  };
}
