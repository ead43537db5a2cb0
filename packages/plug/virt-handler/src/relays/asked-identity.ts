// SPDX-License-Identifier: Apache-2.0
// What this node shows to another one where virt-api signs it: each time anew, for a key that has never left this process before.
import { generateKeyPair } from "node:crypto";
import { promisify } from "node:util";
import { isJsonObject, names, parseJson } from "@patchbay/api";
import { AppError, RELAY_CERTIFICATE } from "@patchbay/core";
import type { KubeClient } from "@patchbay/kube";
import { checkedIdentity, type ReadIdentity } from "./own-identity.ts";

const PATH = `/apis/${names.SUBRESOURCES_GROUP}/v1/${RELAY_CERTIFICATE}`;

const makeKeys = promisify(generateKeyPair);

/** Which node asks is for its token to say. */
export function identityOfVirtApi(
  { requestRaw }: Pick<KubeClient, "requestRaw">,
  node: string,
): ReadIdentity {
  return async () => {
    const { publicKey, privateKey: keyPem } = await makeKeys("ec", {
      namedCurve: "P-256",
      publicKeyEncoding: { type: "spki", format: "pem" },
      privateKeyEncoding: { type: "pkcs8", format: "pem" },
    });
    const { text } = await requestRaw({ method: "PUT", path: PATH, body: { publicKey } });
    const answer = parseJson(text);
    const { certificate, authorities } = isJsonObject(answer) ? answer : {};
    if (typeof certificate !== "string" || typeof authorities !== "string") {
      const reason = "virt-api gave no certificate for migrations";
      throw new AppError("RELAY_FAILED", { reason });
    }
    return checkedIdentity({ certPem: certificate, keyPem, authorityPem: authorities }, node);
  };
}
