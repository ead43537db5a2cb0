// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { parseGuestName } from "./guest-name.ts";

const VM = { isVmi: false };
const VMI = { isVmi: true };

test.each([
  { text: "web", want: { ...VM, name: "web" } },
  { text: "vm/web", want: { ...VM, name: "web" } },
  { text: "vmi/web", want: { ...VMI, name: "web" } },
  { text: "virtualmachineinstance/web", want: { ...VMI, name: "web" } },
  { text: "vm/web/blue", want: { ...VM, name: "web", namespace: "blue" } },
  { text: "vmi/web.blue", want: { ...VMI, name: "web", namespace: "blue" } },
  { text: "web.blue", want: { ...VM, name: "web", namespace: "blue" } },
  { text: "vm/a.b.c", want: { ...VM, name: "a.b.c" } },
  { text: "vm/a.b/blue", want: { ...VM, name: "a.b", namespace: "blue" } },
  { text: "root@vm/web", want: { ...VM, name: "web", user: "root" } },
  { text: "EXAMPLE\\joe@web", want: { ...VM, name: "web", user: "EXAMPLE\\joe" } },
])("$text is $want", ({ text, want }) => {
  expect(parseGuestName(text)).toEqual(want);
});

test.each([
  "",
  "-oProxyCommand=reboot",
  "vm/-web",
  "vm/web;reboot",
  "vm/$(reboot)",
  "vm/web/-blue",
  "vm/web/blue/more",
  "pod/web",
  "@web",
  "-l@vm/web",
  "a b@vm/web",
  "joe@vm/",
])("rejects %j", (text) => {
  expect(() => parseGuestName(text)).toThrow("<vm>");
});
