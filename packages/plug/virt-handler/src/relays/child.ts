// SPDX-License-Identifier: Apache-2.0
// The relay process of one migration. It runs as the launchers' user, without privileges.
import { messageOf } from "@patchbay/core/errors";
import type { ChildChannel } from "@patchbay/core/ports";
import { receive } from "./receive.ts";
import { send, tellGone, type Sender } from "./send.ts";
import { DIRECTORY_TOKEN, type Order, type Word } from "./protocol.ts";

/** Runs in the child after it has dropped its privileges. */
export function main(channel: ChildChannel): void {
  let sender: Sender | undefined;
  const tell = (word: Word): void => {
    channel.send(word);
  };
  const begin = async (order: Exclude<Order, { kind: "tellGone" }>): Promise<void> => {
    const { fd } = channel.takeDescriptor(DIRECTORY_TOKEN); // stays open as long as this process runs
    const directory = `/proc/self/fd/${String(fd)}`;
    if (order.kind === "receive") {
      await receive(order, directory, tell);
      return;
    }
    sender = order;
    await send(order, directory, tell);
  };
  channel.onMessage((message) => {
    const order = message as Order; // the parent is trusted
    if (order.kind === "tellGone") {
      if (sender !== undefined) void tellGone(sender, tell);
      return;
    }
    begin(order).catch((error: unknown) => {
      tell({ kind: "failed", reason: messageOf(error) });
    });
  });
}
