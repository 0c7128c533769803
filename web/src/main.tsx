import { render } from "solid-js/web";
import "./style/base.css";
import "./style/layout.css";
import "./style/chat.css";
import { Entrance } from "./ui/Entrance";

const root = document.getElementById("app");
if (root) render(() => <Entrance />, root);
