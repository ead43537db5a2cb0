// SPDX-License-Identifier: Apache-2.0
// Which files and sockets does the domain of a VMI use, as this node would define it? Pure.
import type { NetworkConfig, VirtualMachineInstance } from "@patchbay/api";
import { AppError, planDomain } from "@patchbay/core";
import { printDomain } from "@patchbay/domain";
import { parseDomain } from "@patchbay/domain/parse";

/** Paths of a domain are the same with every accelerator and every identity. */
const ANY = { useEmulation: true, uuid: "00000000-0000-4000-8000-000000000000" };

/**
 * All but those of its NICs, read from a definition in the way in which what has come is read.
 * @throws AppError with DOMAIN_XML_INVALID, of a VMI that nobody could start
 */
export function pathsOf(vmi: VirtualMachineInstance, network: NetworkConfig): readonly string[] {
  const parsed = parseDomain(printDomain(planDomain(vmi, [], { ...ANY, network })));
  if (!parsed.ok) throw new AppError("DOMAIN_XML_INVALID", { reason: parsed.reason });
  return parsed.domain.paths;
}
