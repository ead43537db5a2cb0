// SPDX-License-Identifier: Apache-2.0
import { asList } from "../../objects/json.ts";
import { AGE } from "../../table/age.ts";
import { type Kind, defineKind } from "../kind.ts";

export const SERVICE_ACCOUNT: Kind = defineKind({
  group: "",
  version: "v1",
  resource: "serviceaccounts",
  kind: "ServiceAccount",
  shortNames: ["sa"],
  subresources: [
    {
      name: "token",
      verbs: ["create"],
      kind: "TokenRequest",
      group: "authentication.k8s.io",
      version: "v1",
    },
  ],
  strategy: {
    returnsDeleted: true,
    columns: [
      { name: "Secrets", type: "integer", cell: (object) => asList(object["secrets"]).length },
      AGE,
    ],
  },
});
