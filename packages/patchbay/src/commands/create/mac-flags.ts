// SPDX-License-Identifier: Apache-2.0
// MAC addresses of the interfaces of a new VM, from the flag --mac. Pure.
import { isNicMac, normalizeMac } from "@patchbay/api";
import { AppError } from "@patchbay/core/errors";

interface NamedMac {
  readonly name: string | undefined;
  readonly mac: string;
}

/** `NAME=MAC`, or a MAC alone for the next network. */
function parse(text: string, next: () => string | undefined): NamedMac {
  const [mac = "", name] = text.split("=").reverse();
  return { name: name ?? next(), mac };
}

function problemsOf(
  texts: readonly string[],
  given: readonly NamedMac[],
  names: readonly string[],
): readonly string[] {
  return given.flatMap(({ name, mac }, index) => {
    const text = texts[index] ?? "";
    const isTwice = given.findIndex((other) => other.name === name) < index;
    if (name === undefined) return [`${text}: there is no further --network`];
    if (!names.includes(name)) return [`${text}: the VM has no interface ${name}`];
    if (isTwice) return [`${text}: interface ${name} has two MAC addresses`];
    return isNicMac(mac) ? [] : [`${text}: ${mac} is not the MAC address of a NIC`];
  });
}

/**
 * The MAC of each interface, by its name. A value without a name belongs to the next network, and to the pod network's
 * interface when there is no other.
 * @throws AppError with FLAG_INVALID, with all causes
 */
export function readMacs(
  texts: readonly string[],
  names: readonly string[],
): ReadonlyMap<string, string> {
  const [first, ...others] = names;
  const positional = (others.length === 0 ? [first] : others)[Symbol.iterator]();
  const given = texts.map((text) => parse(text, () => positional.next().value));
  const problems = problemsOf(texts, given, names);
  if (problems.length > 0) {
    throw new AppError("FLAG_INVALID", { flag: "--mac", reason: problems.join("; ") });
  }
  return new Map(given.map(({ name = "", mac }) => [name, normalizeMac(mac)] as const));
}
