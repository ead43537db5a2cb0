// SPDX-License-Identifier: Apache-2.0
// Contract of Netlink.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { NetnsHandle, Netlink } from "@patchbay/core/interfaces";

/** A namespace with the loopback only, and one that cannot be entered. */
export interface NetlinkScene {
  readonly netlink: Netlink;
  readonly netns: NetnsHandle;
  /** Handle of a namespace whose descriptor is closed. */
  readonly closed: NetnsHandle;
  close(): Promise<void>;
}

/** Source: linux/rtnetlink.h; NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP of linux/netlink.h. */
const [RTM_DELLINK, RTM_GETLINK] = [17, 18];
const [ACK, DUMP] = [0x005, 0x301];
const ENODEV = 19;

/** Encodes a header, and struct ifinfomsg with an index. */
function linkMessage(type: number, flags: number, index = 0): Uint8Array {
  const message = new DataView(new ArrayBuffer(32));
  message.setUint32(0, 32, true);
  message.setUint16(4, type, true);
  message.setUint16(6, flags, true);
  message.setInt32(20, index, true);
  return new Uint8Array(message.buffer);
}

export function describeNetlinkContract(kind: string, make: () => Promise<NetlinkScene>): void {
  describe(`netlink ${kind}`, () => {
    let scene: NetlinkScene;

    beforeAll(async () => {
      scene = await make();
    });
    afterAll(() => scene.close());

    test("returns complete answers of the requested namespace", async () => {
      const messages = [linkMessage(RTM_GETLINK, DUMP), linkMessage(RTM_GETLINK, DUMP)];
      const answers = await scene.netlink.exchangeMessages(scene.netns, "route", messages);
      expect(answers.map(({ errno }) => errno)).toEqual([0, 0]);
      // The dump has one message, of the link with index 1.
      for (const { data } of answers) {
        const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
        expect(view.getUint32(0, true)).toBe(data.byteLength);
        expect(view.getInt32(20, true)).toBe(1);
      }
    });

    test("stops at a rejected message and returns its error", async () => {
      const messages = [
        linkMessage(RTM_GETLINK, DUMP),
        linkMessage(RTM_DELLINK, ACK, 98_765),
        linkMessage(RTM_GETLINK, DUMP),
      ];
      const answers = await scene.netlink.exchangeMessages(scene.netns, "route", messages);
      expect(answers.map(({ errno }) => errno)).toEqual([0, ENODEV]);
    });

    test("returns nothing for no messages", async () => {
      expect(await scene.netlink.exchangeMessages(scene.netns, "route", [])).toEqual([]);
    });

    test("creates a tap once", async () => {
      const tap = { name: "tap1", owner: 107, isMultiQueue: true };
      await scene.netlink.makeTap(scene.netns, tap);
      const again = scene.netlink.makeTap(scene.netns, tap);
      await expect(again).rejects.toMatchObject({ code: "OS_FILE_FAILED" });
    });

    test("reads only settings that match", async () => {
      const patterns = ["ipv4/conf/*/forwarding", "ipv4/conf/nosuch/forwarding"];
      const text = await scene.netlink.readSettings(scene.netns, patterns);
      expect(text.split("\n").sort()).toEqual([
        "",
        expect.stringMatching(/^ipv4\/conf\/all\/forwarding:[01]$/),
        expect.stringMatching(/^ipv4\/conf\/default\/forwarding:[01]$/),
        expect.stringMatching(/^ipv4\/conf\/lo\/forwarding:[01]$/),
        expect.stringMatching(/^ipv4\/conf\/tap1\/forwarding:[01]$/),
      ]);
    });

    test("fails for a closed descriptor", async () => {
      const refused = { code: "OS_DESCRIPTOR_STALE" };
      const { closed, netlink } = scene;
      await expect(netlink.exchangeMessages(closed, "route", [])).rejects.toMatchObject(refused);
      await expect(netlink.readSettings(closed, [])).rejects.toMatchObject(refused);
    });
  });
}
