// SPDX-License-Identifier: Apache-2.0
// One result in the words of each version.
import { expect, test } from "vitest";
import { printResult } from "./formats.ts";

const RESULT = {
  cniVersion: "1.0.0",
  interfaces: [{ name: "veth1" }, { name: "eth0", mac: "02:00:00:00:00:01", sandbox: "/n" }],
  ips: [
    { interface: 1, address: "10.0.0.5/24", gateway: "10.0.0.1" },
    { interface: 1, address: "fd00::5/64" },
    { interface: 1, address: "10.0.0.6/24" },
  ],
  routes: [{ dst: "0.0.0.0/0", gw: "10.0.0.1" }, { dst: "::/0" }],
  dns: { nameservers: ["10.0.0.2"] },
};

test.each(["1.0.0", "1.1.0"])("prints a result unchanged for version %s", (cniVersion) => {
  expect(printResult(RESULT, cniVersion)).toEqual({ ...RESULT, cniVersion });
});

test.each(["0.3.0", "0.3.1", "0.4.0"])(
  "prints the family of each address for version %s",
  (cniVersion) => {
    const [first, second, third] = RESULT.ips;
    expect(printResult(RESULT, cniVersion)).toEqual({
      ...RESULT,
      cniVersion,
      ips: [
        { version: "4", ...first },
        { version: "6", ...second },
        { version: "4", ...third },
      ],
    });
  },
);

test.each(["0.1.0", "0.2.0"])("prints one address of each family for version %s", (cniVersion) => {
  expect(printResult(RESULT, cniVersion)).toEqual({
    cniVersion,
    ip4: {
      ip: "10.0.0.5/24",
      gateway: "10.0.0.1",
      routes: [{ dst: "0.0.0.0/0", gw: "10.0.0.1" }],
    },
    ip6: { ip: "fd00::5/64", routes: [{ dst: "::/0" }] },
    dns: RESULT.dns,
  });
});

test("prints no addresses for a result without addresses", () => {
  expect(printResult({ cniVersion: "1.0.0" }, "0.2.0")).toEqual({ cniVersion: "0.2.0", dns: {} });
  expect(printResult({ cniVersion: "1.0.0" }, "0.4.0")).toEqual({ cniVersion: "0.4.0" });
});
