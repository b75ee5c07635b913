/* All, archived and deleted conversations. */
import "../organization/chosen.js";
import "./list.js";
