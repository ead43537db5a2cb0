// SPDX-License-Identifier: Apache-2.0
// Sends a request about a VM's guest, for example to pause it, and prints the response.
import { VIRTUAL_MACHINE_INSTANCES } from "@patchbay/api";
import { AppError } from "@patchbay/base";
import type { Context } from "../../command.ts";
import type { Input } from "../../input.ts";
import { printResult } from "../../print/output.ts";
import { withSession, subresourcePath } from "../../session.ts";
import { parseGuestName } from "../streams/guest-name.ts";

const TIMEOUT_MS = 30_000;

export interface GuestRequest {
  readonly subresource: string;
  readonly method: "GET" | "PUT";
}

/** Sends the request to the guest in `args`, for example `vm web` or `vmi/web`. @throws AppError with FLAG_INVALID */
export async function requestGuest(
  context: Context,
  { args }: Input,
  { subresource, method }: GuestRequest,
): Promise<void> {
  if (args.length > 2) {
    const reason = `${args.join(" ")}: name exactly one VM, as vm NAME or vmi NAME`;
    throw new AppError("FLAG_INVALID", { flag: "<vm...>", reason });
  }
  const { name, namespace: named } = parseGuestName(args.join("/"));
  await withSession(context, async (session) => {
    const target = { name, namespace: named ?? session.namespace };
    const path = subresourcePath({ ...target, kind: "virtualmachineinstance" }, subresource);
    const body = method === "PUT" ? { body: {} } : {};
    const { signal } = context;
    const answer = await session.client.requestRaw({
      method,
      path,
      timeoutMs: TIMEOUT_MS,
      signal,
      ...body,
    });
    const result: unknown = method === "GET" ? JSON.parse(answer.text) : { result: "done" };
    await printResult(context, {
      // JSON escapes control characters, which the guest could send to control the terminal.
      table: () =>
        method === "GET"
          ? `${JSON.stringify(result, undefined, 2)}\n`
          : `VMI ${name}: ${subresource}: done\n`,
      data: result,
      names: [`${VIRTUAL_MACHINE_INSTANCES.resource}/${name}`],
    });
  });
}
