// SPDX-License-Identifier: Apache-2.0
// Reads the definition of a running domain once for as long as it stays what it was: most passes find it unchanged, and
// reading takes some milliseconds.
import { AppError } from "@patchbay/core";
import type { DomainFacts } from "@patchbay/domain";
import { parseDomain } from "@patchbay/domain/parse";
import type { HypervisorConnection } from "@patchbay/core/ports";

type DomainReader = Pick<HypervisorConnection, "readDomainXml">;

interface Read {
  readonly xml: string;
  readonly facts: DomainFacts;
}

/** By the connection, which has one domain. */
const lastRead = new WeakMap<DomainReader, Read>();

/**
 * What the live definition of the domain says.
 * @throws AppError with DOMAIN_XML_INVALID, and what the connection throws
 */
export async function readDomainFacts(
  name: string,
  connection: DomainReader,
): Promise<DomainFacts> {
  const xml = await connection.readDomainXml(name, "live");
  const last = lastRead.get(connection);
  if (last?.xml === xml) return last.facts;
  const parsed = parseDomain(xml);
  if (!parsed.ok) throw new AppError("DOMAIN_XML_INVALID", { reason: parsed.reason });
  lastRead.set(connection, { xml, facts: parsed.domain });
  return parsed.domain;
}
