// SPDX-License-Identifier: Apache-2.0
// What is told of requests, and how often.
import { describe, expect, test } from "vitest";
import type { LogFields, Logger } from "@patchbay/base";
import { AccessLog } from "./access.ts";
import type { AccessAttributes } from "./authorizer.ts";

const CONTROLLER = { name: "system:serviceaccount:patchbay:virt-controller", groups: [] };
const JANE = { name: "jane", groups: [] };
const STATUS: AccessAttributes = {
  verb: "patch",
  group: "kubevirt.io",
  version: "v1",
  resource: "virtualmachines",
  subresource: "status",
  namespace: "default",
  name: "alpha",
  path: "",
};
const PODS: AccessAttributes = { ...STATUS, group: "", resource: "pods", subresource: "" };

function startLog(): { readonly log: AccessLog; readonly lines: [string, LogFields][] } {
  const lines: [string, LogFields][] = [];
  const info = (message: string, fields: LogFields = {}): void => {
    lines.push([message, fields]);
  };
  const logger: Logger = {
    info,
    debug: () => undefined,
    warn: () => undefined,
    error: () => undefined,
    child: () => logger,
  };
  return { log: new AccessLog(logger), lines };
}

describe("the access log", () => {
  test("records the user, the verb and the resource, in kubectl's terms", () => {
    const { log, lines } = startLog();
    log.record(CONTROLLER, STATUS, true);
    log.record(CONTROLLER, PODS, true);
    expect(lines).toEqual([
      [
        "right used",
        {
          user: CONTROLLER.name,
          verb: "patch",
          resource: "virtualmachines.kubevirt.io/status",
          object: "default/alpha",
        },
      ],
      ["right used", expect.objectContaining({ resource: "pods" })],
    ]);
  });

  test("records each access once, and a denial also after an earlier grant", () => {
    const { log, lines } = startLog();
    log.record(CONTROLLER, STATUS, true);
    log.record(CONTROLLER, { ...STATUS, name: "beta" }, true);
    log.record(CONTROLLER, STATUS, false);
    log.record(CONTROLLER, STATUS, false);
    expect(lines.map(([message]) => message)).toEqual(["right used", "right missing"]);
  });

  test("records only denials of human users", () => {
    const { log, lines } = startLog();
    log.record(JANE, STATUS, true);
    expect(lines).toEqual([]);
    log.record(JANE, STATUS, false);
    expect(lines).toHaveLength(1);
  });

  test("does not record paths that are not resources", () => {
    const { log, lines } = startLog();
    const nothing = { group: "", version: "", resource: "", subresource: "" };
    log.record(JANE, { ...nothing, verb: "get", namespace: "", name: "", path: "/x" }, false);
    expect(lines).toEqual([]);
  });

  test("is bounded, whatever names clients invent", () => {
    const { log, lines } = startLog();
    for (let count = 0; count < 6000; count += 1) {
      log.record(JANE, { ...PODS, resource: `r${String(count)}` }, false);
    }
    expect(lines).toHaveLength(5000);
  });
});
