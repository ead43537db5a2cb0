// SPDX-License-Identifier: Apache-2.0
// Certificate that this node presents to other nodes. It is read for each migration, because it is renewed while the process runs.
import { createPrivateKey, X509Certificate, generateKeyPair } from "node:crypto";
import { join } from "node:path";
import { AppError, messageOf, type Clock, type Logger } from "@patchbay/base";
import { RELAY_CERTIFICATE } from "@patchbay/core/guest";
import type { Files } from "@patchbay/core/interfaces";
import { isPeer, type RelayIdentity } from "./protocol.ts";
import { promisify } from "node:util";
import { names } from "@patchbay/api";
import { isJsonObject, parseJson } from "@patchbay/api/json";
import type { KubeClient } from "@patchbay/kube";

/** Reads the certificate. @throws AppError with RELAY_FAILED if other nodes would reject the certificate */
export type ReadIdentity = () => Promise<RelayIdentity>;

function findProblem({ certPem, keyPem }: RelayIdentity, node: string): string | undefined {
  const certificate = new X509Certificate(certPem);
  if (!isPeer(certificate.toLegacyObject(), node)) {
    return `the certificate for migrations does not name node ${node}`;
  }
  return certificate.checkPrivateKey(createPrivateKey(keyPem))
    ? undefined
    : "the certificate for migrations and its key do not belong together";
}

function checkIdentity(identity: RelayIdentity, node: string): RelayIdentity {
  let reason: string | undefined;
  try {
    reason = findProblem(identity, node);
  } catch (error) {
    reason = `the certificate for migrations cannot be read: ${messageOf(error)}`;
  }
  if (reason !== undefined) throw new AppError("RELAY_FAILED", { reason });
  return identity;
}

async function readRequired(files: Files, path: string): Promise<string> {
  const text = await files.readText(path);
  if (text !== undefined) return text;
  throw new AppError("RELAY_FAILED", { reason: `file ${path} does not exist` });
}

export function identityFromDirectory(files: Files, directory: string, node: string): ReadIdentity {
  return async () => {
    const [certPem, keyPem, authorityPem] = await Promise.all(
      ["tls.crt", "tls.key", "ca.crt"].map((name) => readRequired(files, join(directory, name))),
    );
    return checkIdentity(
      { certPem: certPem ?? "", keyPem: keyPem ?? "", authorityPem: authorityPem ?? "" },
      node,
    );
  };
}

const IDENTITY_RETRY_INTERVAL_MS = 30_000;

/** Retries reading the certificate until it is valid, so that problems with it are logged before the first migration. */
export async function waitForIdentity(
  read: ReadIdentity,
  { clock, log }: { readonly clock: Clock; readonly log: Logger },
  signal: AbortSignal,
): Promise<void> {
  let lastReason = "";
  while (!signal.aborted) {
    try {
      await read();
      log.info("the certificate for migrations is valid");
      return;
    } catch (error) {
      const reason = messageOf(error);
      if (reason !== lastReason)
        log.warn("guests cannot migrate from or to this node yet", { reason });
      lastReason = reason;
      await clock.sleep(IDENTITY_RETRY_INTERVAL_MS, signal).catch(() => undefined);
    }
  }
}

const CERTIFICATE_PATH = `/apis/${names.SUBRESOURCES_GROUP}/v1/${RELAY_CERTIFICATE}`;

const generateKeys = promisify(generateKeyPair);

/** Returns a function that requests a certificate from virt-api, which derives the node's name from the request's token. */
export function identityFromVirtApi(
  { requestRaw }: Pick<KubeClient, "requestRaw">,
  node: string,
): ReadIdentity {
  return async () => {
    const { publicKey, privateKey: keyPem } = await generateKeys("ec", {
      namedCurve: "P-256",
      publicKeyEncoding: { type: "spki", format: "pem" },
      privateKeyEncoding: { type: "pkcs8", format: "pem" },
    });
    const { text } = await requestRaw({
      method: "PUT",
      path: CERTIFICATE_PATH,
      body: { publicKey },
    });
    const answer = parseJson(text);
    const { certificate, authorities } = isJsonObject(answer) ? answer : {};
    if (typeof certificate !== "string" || typeof authorities !== "string") {
      const reason = "virt-api returned no certificate for migrations";
      throw new AppError("RELAY_FAILED", { reason });
    }
    return checkIdentity({ certPem: certificate, keyPem, authorityPem: authorities }, node);
  };
}
