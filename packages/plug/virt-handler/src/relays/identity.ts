// SPDX-License-Identifier: Apache-2.0
// Is the other end the node that it must be? By its certificate: the authority's, a relay's, and of that node's name.
import type { PeerCertificate, SecureContextOptions } from "node:tls";
import { RELAY_GROUP } from "@patchbay/api/names";
import type { RelayIdentity } from "./words.ts";

/** What a connection is made with; both ends are ours. */
export function tlsOf(identity: RelayIdentity): SecureContextOptions {
  const { certPem: cert, keyPem: key, authorityPem: ca } = identity;
  return { cert, key, ca, minVersion: "TLSv1.3" };
}

/** Whether a certificate that the authority has signed is that node's, for this use. */
export function isPeer({ subject }: Pick<PeerCertificate, "subject">, node: string): boolean {
  return subject.CN === node && subject.O === RELAY_GROUP;
}
