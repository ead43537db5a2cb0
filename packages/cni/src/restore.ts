// SPDX-License-Identifier: Apache-2.0
// Gives a pod NIC its addresses back before DEL: the guest owned them meanwhile, but plugins look for them on the NIC
// to find what they must undo (bridge removes masquerading rules by them).
import type { AttachmentRequest, CniResult, ProcessRunner } from "@patchbay/ports";

/** Words of a batch: nothing else may be in them. */
const CIDR = /^[0-9A-Fa-f.:]+\/\d{1,3}$/;
/** An `ip` command in a namespace takes milliseconds. */
const TIMEOUT_MS = 5_000;

function addressesOf(result: CniResult, interfaceName: string): readonly string[] {
  const index = result.interfaces?.findIndex(
    ({ name, sandbox }) => name === interfaceName && sandbox !== undefined && sandbox !== "",
  );
  return (result.ips ?? [])
    .filter(({ interface: owner }) => owner === undefined || owner === index)
    .map(({ address }) => address)
    .filter((address) => CIDR.test(address));
}

/** Equivalent to: `ip address replace ADDRESS dev NIC` for each address of the result; a NIC that is gone is left alone. */
export async function restoreAddresses(
  runner: ProcessRunner,
  request: AttachmentRequest,
  result: CniResult,
): Promise<void> {
  const { netnsPath, interfaceName } = request;
  const addresses = addressesOf(result, interfaceName);
  if (netnsPath === undefined || addresses.length === 0) return;
  const commands = addresses.map((address) => `address replace ${address} dev ${interfaceName}\n`);
  // What it cannot do, because link or namespace went, DEL does not need.
  await runner.run({
    argv: ["nsenter", `--net=${netnsPath}`, "ip", "-force", "-batch", "-"],
    stdin: commands.join(""),
    timeoutMs: TIMEOUT_MS,
  });
}
